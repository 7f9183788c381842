// RUN: vk-opt %s | lower-to-llvm | filecheck %s
// A dot of many rows multiplies all positions of one row before it loads elements of the next, so that few addresses
// are alive.

vk.mapped @rows(%a: !vk.tensor<[M, K], f32>, %b: !vk.tensor<[K, N], f32>, %out: !vk.tensor<[M, N], f32>) lanes j facts {sizes = {}, multiples = {}, strides = {a = [2, 1], b = [8, 1], out = [8, 1]}, distinct} {
  %one = arith.constant 1 : i64
  vk.launch "rows" over (%p = %one) {
    %r = vk.load %b[k, j] : !vk.tensor<[K, N], f32> -> tensor<2x8xf32, #vk.axes<k, j>>
    %s = vk.load %out[i, j] : !vk.tensor<[M, N], f32> -> tensor<16x8xf32, #vk.axes<i, j>>
    %l = vk.load %a[i, k] : !vk.tensor<[M, K], f32> -> tensor<16x2xf32, #vk.axes<i, k>>
    %d = vk.dot %l, %r, %s along k precision ieee : tensor<16x2xf32, #vk.axes<i, k>>, tensor<2x8xf32, #vk.axes<k, j>>, tensor<16x8xf32, #vk.axes<i, j>>
    vk.store %d in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<16x8xf32, #vk.axes<i, j>>
  }
}

// CHECK:      [[NEXT:%[0-9]+]] = llvm.getelementptr %slot0[1] :
// CHECK-NEXT: [[ROW:%[0-9]+]] = llvm.getelementptr %slot0[2] :
// CHECK:      llvm.load %slot0 {alignment = 4 : i64} : !llvm.ptr -> f32
// CHECK:      [[HALF:%[0-9]+]] = arith.addf {{%[0-9]+}}, {{%[0-9]+}} fastmath<contract> : vector<8xf32>
// CHECK-NEXT: llvm.load [[NEXT]] {alignment = 4 : i64} : !llvm.ptr -> f32
// CHECK:      arith.addf {{%[0-9]+}}, [[HALF]] fastmath<contract> : vector<8xf32>
// CHECK-NEXT: llvm.load [[ROW]] {alignment = 4 : i64} : !llvm.ptr -> f32
