// RUN: vk-opt %s | lower-to-llvm | filecheck %s
// Dots that share an operand go through it together, row by row: what they share is loaded once, and then multiplied
// with the operands of both before the next row is loaded.

vk.mapped @beside(%a: !vk.tensor<[M, K], f32>, %b: !vk.tensor<[K, N], f32>, %c: !vk.tensor<[K, N], f32>, %out: !vk.tensor<[M, N], f32>) lanes j facts {sizes = {}, multiples = {}, strides = {a = [2, 1], b = [8, 1], c = [8, 1], out = [8, 1]}, distinct} {
  %one = arith.constant 1 : i64
  vk.launch "beside" over (%p = %one) {
    %s = vk.load %out[i, j] : !vk.tensor<[M, N], f32> -> tensor<2x8xf32, #vk.axes<i, j>>
    %r = vk.load %b[k, j] : !vk.tensor<[K, N], f32> -> tensor<2x8xf32, #vk.axes<k, j>>
    %q = vk.load %c[k, j] : !vk.tensor<[K, N], f32> -> tensor<2x8xf32, #vk.axes<k, j>>
    %l = vk.load %a[i, k] : !vk.tensor<[M, K], f32> -> tensor<2x2xf32, #vk.axes<i, k>>
    %d = vk.dot %l, %r, %s along k precision ieee : tensor<2x2xf32, #vk.axes<i, k>>, tensor<2x8xf32, #vk.axes<k, j>>, tensor<2x8xf32, #vk.axes<i, j>>
    %e = vk.dot %l, %q, %s along k precision ieee : tensor<2x2xf32, #vk.axes<i, k>>, tensor<2x8xf32, #vk.axes<k, j>>, tensor<2x8xf32, #vk.axes<i, j>>
    %f = arith.mulf %d, %e : tensor<2x8xf32, #vk.axes<i, j>>
    vk.store %f in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<2x8xf32, #vk.axes<i, j>>
  }
}

// CHECK:      [[ROW:%[0-9]+]] = llvm.getelementptr %slot0[2] :
// CHECK:      llvm.load %slot0 {alignment = 4 : i64} : !llvm.ptr -> f32
// CHECK:      [[ONE:%[0-9]+]] = llvm.load %slot3 {alignment = 4 : i64} : !llvm.ptr -> vector<8xf32>
// CHECK:      arith.mulf [[ELEMENT:%[0-9]+]], [[ONE]] fastmath<contract> : vector<8xf32>
// CHECK:      [[OTHER:%[0-9]+]] = llvm.load %slot6 {alignment = 4 : i64} : !llvm.ptr -> vector<8xf32>
// CHECK:      arith.mulf [[ELEMENT]], [[OTHER]] fastmath<contract> : vector<8xf32>
// CHECK:      llvm.load [[ROW]] {alignment = 4 : i64} : !llvm.ptr -> f32
// CHECK:      arith.mulf [[BELOW:%[0-9]+]], [[ONE]] fastmath<contract> : vector<8xf32>
// CHECK-NOT:  llvm.load
// CHECK:      arith.mulf [[BELOW]], [[OTHER]] fastmath<contract> : vector<8xf32>
