// RUN: vk-opt '--apply-plan{tiles="i=64","j=64" chunks="k=32" lanes=j multiples="K=32" distinct=true}' --lower-to-ttir %s | filecheck %s
// Operands that were extended from f16 go to the dot as f16, which tensor cores take; the sum is carried in f32.

vk.kernel @matmul(%a: !vk.tensor<[M, K], f16>, %b: !vk.tensor<[K, N], f16>, %bias: !vk.tensor<[N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.tile j < %N
  %K = vk.size K
  vk.whole k < %K
  %x = vk.load %a[i, k] : !vk.tensor<[M, K], f16> -> tensor<?x?xf16, #vk.axes<i, k>>
  %y = vk.load %b[k, j] : !vk.tensor<[K, N], f16> -> tensor<?x?xf16, #vk.axes<k, j>>
  %xf = arith.extf %x : tensor<?x?xf16, #vk.axes<i, k>> to tensor<?x?xf32, #vk.axes<i, k>>
  %yf = arith.extf %y : tensor<?x?xf16, #vk.axes<k, j>> to tensor<?x?xf32, #vk.axes<k, j>>
  %zero = arith.constant 0.0 : f32
  %init = vk.broadcast %zero : f32 -> tensor<?x?xf32, #vk.axes<i, j>>
  %p = vk.dot %xf, %yf, %init along k precision ieee : tensor<?x?xf32, #vk.axes<i, k>>, tensor<?x?xf32, #vk.axes<k, j>>, tensor<?x?xf32, #vk.axes<i, j>>
  %v = vk.load %bias[j] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<j>>
  %vb = vk.broadcast %v : tensor<?xf32, #vk.axes<j>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %r = arith.addf %p, %vb : tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %r in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}

// CHECK:      scf.for %k0 = %{{.*}} iter_args([[SUM:%[a-z0-9_]+]] = %{{.*}}) -> (tensor<64x64xf32>) : i64 {
// CHECK:        [[A:%[a-z0-9_]+]] = "tt.load"
// CHECK:        [[B:%[a-z0-9_]+]] = "tt.load"
// CHECK-NOT:    arith.extf
// CHECK:        [[NEXT:%[a-z0-9_]+]] = "tt.dot"([[A]], [[B]], [[SUM]]) <{inputPrecision = 2 : i32, maxNumImpreciseAcc = 0 : i32}> : (tensor<64x32xf16>, tensor<32x64xf16>, tensor<64x64xf32>) -> tensor<64x64xf32>
// CHECK-NEXT:   scf.yield [[NEXT]]
// CHECK:      "tt.expand_dims"(%{{v[_0-9]*}}) <{axis = 0 : i32}>
// CHECK:      "tt.store"
