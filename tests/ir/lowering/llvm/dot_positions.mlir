// RUN: vk-opt %s | lower-to-llvm | filecheck %s
// A dot of few rows multiplies all of them at one position before it goes on to the next, so that one vector of the other
// operand is alive.

vk.mapped @positions(%a: !vk.tensor<[M, K], f32>, %b: !vk.tensor<[K, N], f32>, %out: !vk.tensor<[M, N], f32>) lanes j facts {sizes = {}, multiples = {}, strides = {a = [2, 1], b = [8, 1], out = [8, 1]}, distinct} {
  %one = arith.constant 1 : i64
  vk.launch "positions" over (%p = %one) {
    %r = vk.load %b[k, j] : !vk.tensor<[K, N], f32> -> tensor<2x8xf32, #vk.axes<k, j>>
    %s = vk.load %out[i, j] : !vk.tensor<[M, N], f32> -> tensor<2x8xf32, #vk.axes<i, j>>
    %l = vk.load %a[i, k] : !vk.tensor<[M, K], f32> -> tensor<2x2xf32, #vk.axes<i, k>>
    %d = vk.dot %l, %r, %s along k precision ieee : tensor<2x2xf32, #vk.axes<i, k>>, tensor<2x8xf32, #vk.axes<k, j>>, tensor<2x8xf32, #vk.axes<i, j>>
    vk.store %d in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<2x8xf32, #vk.axes<i, j>>
  }
}

// CHECK:      [[BELOW:%[0-9]+]] = llvm.getelementptr %slot3[8] :
// CHECK:      [[NEXT:%[0-9]+]] = llvm.getelementptr %slot0[1] :
// CHECK:      [[ROW:%[0-9]+]] = llvm.getelementptr %slot0[2] :
// CHECK:      llvm.load %slot0 {alignment = 4 : i64} : !llvm.ptr -> f32
// CHECK:      [[VECTOR:%[0-9]+]] = llvm.load %slot3 {alignment = 4 : i64} : !llvm.ptr -> vector<8xf32>
// CHECK:      llvm.load [[ROW]] {alignment = 4 : i64} : !llvm.ptr -> f32
// CHECK:      arith.mulf {{%[0-9]+}}, [[VECTOR]] fastmath<contract> : vector<8xf32>
// CHECK:      llvm.load [[NEXT]] {alignment = 4 : i64} : !llvm.ptr -> f32
// CHECK:      llvm.load [[BELOW]] {alignment = 4 : i64} : !llvm.ptr -> vector<8xf32>
